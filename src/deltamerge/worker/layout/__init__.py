"""Files written again for their layout: small ones put together, rows in Z-order."""
