"""The sender: sends network publications, with flow control and retransmission."""
