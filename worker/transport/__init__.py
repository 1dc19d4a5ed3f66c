"""How requests leave: the protocol, and one implementation a module."""
