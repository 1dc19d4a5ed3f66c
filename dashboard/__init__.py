"""The dashboard and the HTTP API."""
