"""History of the time that ``import dataset_rt`` takes in a fresh interpreter."""


class Import:
    """Importing in a new process; PyTorch and Polars must not come along."""

    number = 1

    def timeraw_import_dataset_rt(self) -> str:
        """Return the statement that asv times in a fresh interpreter."""
        return "import dataset_rt"
