"""What the log says of a table: actions, features, properties, constraints."""
