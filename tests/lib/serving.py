"""A service for people with browsers: on a port of its own, with a token for whoever comes by it.

    with Serving(caller) as service:
        run_id = service.submit("sh", "-c", "echo hello", name="greeting")
        service.wait(run_id, "ended")
"""

import urllib.parse

import cupel as lib
from services import Service


class Serving(Service):
    """One service, which can be killed and started again. All that is submitted here is submitted by the token."""

    def __init__(self, caller, settings="", name="tester", config=""):
        super().__init__(caller, settings, tcp=True, config=config)
        self.url = f"http://127.0.0.1:{self.port}"
        self.start()
        self.key = self.token(name, "--scope", "read,submit,admin", "--user", "root")

    def enter(self, tab, path="/"):
        """Opens a page for somebody who has given the token before."""
        tab.before(f"sessionStorage.setItem('cupel-token', '{self.key}')")
        tab.open(self.url + path)

    def call(self, method, path, body=None):
        """What the API answers; anything but success fails the test."""
        headers = {"Authorization": f"Bearer {self.key}"}
        answer = self.ask(method, path, body, headers, tcp=True)
        assert answer.status < 300, f"{method} {path}: {answer.status} {answer.body}"
        return answer.json if answer.body else None

    def submit(self, *command, **analysis):
        return self.call("POST", "/v1/runs", {"analysis": {"command": list(command), **analysis}})["id"]

    def show(self, run_id):
        return self.call("GET", f"/v1/runs/{urllib.parse.quote(run_id)}")

    def wait(self, run_id, state="ended"):
        """The run, once it is in that state."""
        found = {}

        def holds():
            found.update(self.show(run_id))
            return found["state"] == state

        assert lib.wait_until(holds), found
        return found

    def alive(self):
        return [
            row["id"]
            for state in ("queued", "running")
            for row in self.call("GET", f"/v1/runs?state={state}&limit=500")["runs"]
        ]

    def finish(self):
        """Nothing waits or runs any more."""
        for run_id in self.alive():
            self.post(f"/v1/runs/{run_id}/cancel", {})  # or it has just ended
        assert lib.wait_until(lambda: not self.alive()), "runs that were cancelled go on"

    def kill(self):
        self.process.kill()
        self.process.communicate()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        assert self.process.poll() is None, f"the service ended by itself: {self.process.returncode}"
        self.finish()
        self.stop()
