"""What SQL that a table carries may use."""
