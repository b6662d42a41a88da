"""Values of partitions and statistics, predicates, deletion vectors."""
