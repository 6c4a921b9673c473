# syntax=docker/dockerfile:1

FROM rust:1.95-slim-bookworm AS build
WORKDIR /build
# The image brings its own toolchain: rust-toolchain.toml would fetch clippy and rustfmt as well.
ENV RUSTUP_TOOLCHAIN=1.95.0
COPY . .
RUN --mount=type=cache,target=/usr/local/cargo/registry \
    --mount=type=cache,target=/build/target \
    cargo build --release --locked --bin hooklatch \
    && cp target/release/hooklatch /hooklatch

FROM debian:bookworm-slim
# Certificate authorities, for databases that are reached over TLS. Their newest version is the right one.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install -y --no-install-recommends ca-certificates \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --uid 10001 --user-group --no-create-home --shell /usr/sbin/nologin hooklatch \
    && install -d -o hooklatch -g hooklatch /var/lib/hooklatch
COPY --from=build /hooklatch /usr/local/bin/hooklatch

USER 10001:10001
# A SQLite file lands here, if the database is one.
WORKDIR /var/lib/hooklatch
VOLUME /var/lib/hooklatch

# The public listener is reachable from outside the container. The admin listener stays on loopback
# until it is given a token and another address.
ENV HOOKLATCH_CONFIG=/etc/hooklatch/hooklatch.toml \
    HOOKLATCH__HTTP__LISTEN=0.0.0.0:8080 \
    HOOKLATCH__LOG__FORMAT=json
EXPOSE 8080 8081

# Alive, not ready: a container that waits for its database must not be restarted for it.
HEALTHCHECK --interval=10s --timeout=3s --start-period=5s --retries=3 \
    CMD ["bash", "-c", "exec 3<>/dev/tcp/127.0.0.1/8080 && printf 'GET /healthz HTTP/1.0\\r\\nHost: localhost\\r\\n\\r\\n' >&3 && head -n 1 <&3 | grep -q ' 200 '"]

STOPSIGNAL SIGTERM
ENTRYPOINT ["hooklatch"]
CMD ["serve"]
