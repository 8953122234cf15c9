"""Ray, the extra `sooner[ray]`."""
