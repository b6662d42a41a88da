"""From what the user said to what each clause does to each column; every error that a user can cause."""
