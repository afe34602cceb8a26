"""The services of `baton.v1` over grpc.aio: decode, call a use case, encode. One file each."""
