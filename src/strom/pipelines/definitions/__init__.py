"""What users define: streams, tables, views. Plain frozen values that need no Java."""
