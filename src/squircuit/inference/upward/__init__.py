"""The pass upwards: what every layer sends to those above it, for rows with gaps."""
