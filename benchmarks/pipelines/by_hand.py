"""The same views in Spark Structured Streaming, as one would write them by hand."""

import time

from benchmarks.pipelines.stage import SCHEMA, Stage
from strom.pipelines.layers.replay import CHUNK


def count_by_hand(stage: Stage, topic: str, key: str) -> float:
    """Clicks per 10 seconds and key, in update mode, with RocksDB, over all of a topic; seconds."""
    from pyspark.sql import functions as sf

    stage.spark.conf.set(
        "spark.sql.streaming.stateStore.providerClass",
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
    )
    rows = (
        stage.spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", stage.kafka.servers)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        # As large and as evenly divided as strom's own steps: the method counts, not the settings.
        .option("maxOffsetsPerTrigger", CHUNK)
        .option("minPartitions", 8)
        .load()
        .select(sf.from_json(sf.col("value").cast("string"), SCHEMA).alias("row"))
        .select("row.*")
        .withWatermark("at", "1 hour")
        .groupBy(sf.window("at", "10 seconds"), key)
        .count()
    )
    target = stage.folder / "by-hand" / f"{topic}-{key}-{time.time_ns()}"
    began = time.perf_counter()
    query = (
        rows.writeStream.outputMode("update")
        .foreachBatch(lambda batch, number: batch.write.parquet(str(target / str(number))))
        .option("checkpointLocation", str(target / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return time.perf_counter() - began
