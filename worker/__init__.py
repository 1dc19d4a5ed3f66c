"""The worker: claims deliveries, sends them, records what happened."""
