"""Random circuits against an oracle that shares no code with the library: see README.md."""
