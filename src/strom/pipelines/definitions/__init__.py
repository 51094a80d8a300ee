"""What a user writes down: streams, tables, views. Plain frozen values; nothing here needs Java."""
