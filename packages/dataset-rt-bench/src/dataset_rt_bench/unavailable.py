"""The error of a contender that cannot take part here; a report names it instead of failing."""


class UnavailableError(RuntimeError):
    """A contender cannot run on this machine; the message says why, as the end of a sentence."""
