"""A view's rows for a Python program: `load_project().view("page_minutes").to_pandas()`."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from strom.pipelines.serving.queries import QueryEngine
from strom.pipelines.views.manifests import Manifests

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa


@dataclass(frozen=True)
class ViewReader:
    """What a view says now: batch and speed layer together."""

    manifests: Manifests
    name: str

    def to_arrow(self, where: str | None = None) -> "pa.Table":
        """All rows, or those that a condition in SQL holds for."""
        self.manifests.existing(self.name)
        server = QueryEngine(self.manifests)
        try:
            condition = f" WHERE {where}" if where else ""
            return server.query(f'SELECT * FROM "{self.name}"{condition}')
        finally:
            server.close()

    def to_pandas(self, where: str | None = None) -> "pd.DataFrame":
        """The same as a data frame of pandas."""
        return self.to_arrow(where).to_pandas()
