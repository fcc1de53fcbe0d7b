"""The sender: network publications going out, flow control, retransmission."""
