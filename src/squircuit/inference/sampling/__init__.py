"""Exact samples by one walk downwards, with draws by inversion at the inputs."""
