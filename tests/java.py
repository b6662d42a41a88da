"""How the tests' sessions run Java."""

from __future__ import annotations

# Many small queries, two sessions on two cores: to compile all that runs often to the last takes longer than it saves.
QUICK_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
