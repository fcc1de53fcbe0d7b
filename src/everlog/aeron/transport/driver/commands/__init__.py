"""What clients' commands ask for, and how they are answered or refused."""
