"""The rows of a view in Python: `load_project().view("page_minutes").to_pandas()`."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from strom.pipelines.serving.queries import QueryEngine
from strom.pipelines.views.manifests import Manifests

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa


@dataclass(frozen=True)
class ViewReader:
    """Reads the current rows of a view, from the batch and speed layers."""

    manifests: Manifests
    name: str

    def to_arrow(self, where: str | None = None) -> "pa.Table":
        """All rows, or those that match a condition in SQL."""
        self.manifests.existing(self.name)
        engine = QueryEngine(self.manifests)
        try:
            condition = f" WHERE {where}" if where else ""
            return engine.query(f'SELECT * FROM "{self.name}"{condition}')
        finally:
            engine.close()

    def to_pandas(self, where: str | None = None) -> "pd.DataFrame":
        """The same rows as a pandas DataFrame."""
        return self.to_arrow(where).to_pandas()
