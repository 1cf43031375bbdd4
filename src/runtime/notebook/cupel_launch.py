"""The kernel of Python as Jupyter starts it, but that nothing it says is dropped when it says much at once: by itself it keeps a thousand
messages for whoever is slower, and loses the rest without a word, even the one that a cell has ended."""

import sys

if __name__ == "__main__":
    del sys.path[0]  # the driver's modules are none of the notebook's
    from ipykernel.kernelapp import IPKernelApp

    class App(IPKernelApp):
        def init_iopub(self, context):  # type: ignore[no-untyped-def]
            context.sndhwm = 0  # they wait in memory, which is limited
            super().init_iopub(context)

    App.launch_instance()
