"""How a merge will run, and which files can matter: plain data."""
