"""What all tests share: this folder is on their path, for receiver, factories and waiting."""
