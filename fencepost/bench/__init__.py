"""``fencepost bench``: how fast this installation would be on this machine."""
