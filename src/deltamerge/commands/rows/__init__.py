"""Commands that change rows: writing frames, DELETE and UPDATE, histories."""
