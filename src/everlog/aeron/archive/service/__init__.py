"""The live archive: records streams while they flow, replays them over the transport, answers queries and maintains
storage, for clients of Aeron's archive protocol."""
