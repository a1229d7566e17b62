"""What all tests need of the process that they run in."""

import signal


def pytest_configure() -> None:
    """Listen to Ctrl-C, which a shell has commands in the background ignore, and their children."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
