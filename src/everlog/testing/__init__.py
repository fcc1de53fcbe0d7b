"""What tests of stores need, shipped so that others can use it: the contract of every store, and a faulty storage."""
