"""Delta in Spark's own methods: what stands in their place while a session is active, and which sessions are."""

from deltamerge.activation.switch import activate, deactivate

__all__ = ["activate", "deactivate"]
