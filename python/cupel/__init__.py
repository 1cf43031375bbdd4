"""cupel: analyses in a box, on a budget, with a record of how they ended.

    import cupel
    run = cupel.run(["python3", "-c", "print(6 * 7)"], limits={"memory": "256M", "time": "1m"})
    run.cause, run.completion_notes

`Local` uses the program `cupel`, `Client` a service; `connect` takes the service if there is one. Each has an
asynchronous twin. `cupel.platform` has the names that a platform knows already.
"""

from .spec import analysis, new_id
from .client import Client
from .client_async import AsyncClient
from .select import connect, connect_async, run, run_async
from .door import AsyncDoor, Door
from .errors import CupelError, NotFound, Refused, Unavailable, WaitTimeout
from .local import Local
from .local_async import AsyncLocal
from .model import LogPart, Output, Run
from .wire import Patience

__version__ = "0.1.0"
__all__ = ["AsyncClient", "AsyncDoor", "AsyncLocal", "Client", "CupelError", "Door", "Local", "LogPart", "NotFound",
           "Output", "Patience", "Refused", "Run", "Unavailable", "WaitTimeout", "analysis", "connect",
           "connect_async", "new_id", "run", "run_async"]
