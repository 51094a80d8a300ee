"""`prepare` makes rows one by one; what looks at several is refused before anything runs."""

import pytest
from pyspark.sql import Window
from pyspark.sql import functions as sf

from strom.model.errors import UserError
from strom.pipelines import Stream, Table, View, count
from strom.pipelines.spark.folding import bind_with_spark

STREAM = Stream("clicks", schema="user STRING, page STRING, ms INT, tags ARRAY<STRING>")


def bound(spark, folder, **view):
    return bind_with_spark(
        spark, View(reads=STREAM, measures={"n": count()}, name="v", **view), folder
    )


@pytest.mark.parametrize(
    ("prepare", "told"),
    [
        (lambda rows: rows.dropDuplicates(["user"]), "removes duplicates"),
        (lambda rows: rows.distinct(), "removes duplicates"),
        (lambda rows: rows.limit(10), "takes a number of rows"),
        (lambda rows: rows.groupBy("page").agg(sf.max("ms").alias("ms")), "groups rows"),
        (lambda rows: rows.sample(0.5), "takes rows by chance"),
        (
            lambda rows: rows.withColumn(
                "n", sf.row_number().over(Window.partitionBy("user").orderBy("ms"))
            ),
            "looks at neighbouring rows",
        ),
    ],
)
def test_what_looks_at_several_rows_is_refused(spark, tmp_path, prepare, told):
    with pytest.raises(UserError, match=rf"test_row_level\.py:\d+: View v {told}"):
        bound(spark, tmp_path, prepare=prepare)


def test_what_makes_rows_one_by_one_is_taken(spark, tmp_path):
    (tmp_path / "pages.csv").write_text("page,kind\n/cart,shop\n")

    def prepare(rows, pages):
        kinds = pages.groupBy("page").agg(sf.max("kind").alias("kind"))
        tagged = rows.withColumn("tag", sf.explode("tags")).where("ms > 3")
        return tagged.join(kinds, "page", "left").union(tagged.withColumn("kind", sf.lit("all")))

    table = Table("pages.csv", schema="page STRING, kind STRING")
    _, columns = bound(
        spark, tmp_path, prepare=prepare, tables={"pages": table}, columns={"twice": "2 * ms"}
    )
    assert columns["kind"] == "string"
