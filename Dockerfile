# syntax=docker/dockerfile:1

# Two images from one program:
#
#   docker build -t stampede .                        serves next to a PostgreSQL and a Redis of yours
#   docker build -t stampede-demo --target demo .     brings both, for trying it out:
#   docker run --rm -p 127.0.0.1:8080:8080 stampede-demo

# Base images are named by version and by the digest of that version's index, so that a moved tag changes no build.
# The builder runs on the machine's own platform and cross-compiles, so that an arm64 image needs no emulation.
FROM --platform=$BUILDPLATFORM golang:1.26.8-bookworm@sha256:a688600ca24f8a4d3ca77f95b0dd40704a9fc787c826660eb7ba0b641b8b175d AS build
WORKDIR /src
# Only given where modules come from a module proxy of one's own (build argument GOPROXY).
ARG GOPROXY
# The modules change rarely: a layer of their own keeps them cached while the code changes.
COPY go.mod go.sum ./
RUN go mod download
COPY *.go ./
COPY migrations ./migrations
COPY platform ./platform
COPY inventory ./inventory
COPY order ./order
COPY payment ./payment
COPY notify ./notify
COPY seckill ./seckill
ARG TARGETOS
ARG TARGETARCH
# Without cgo the program needs no C library and runs on every base image; -trimpath keeps the builder's folders out.
RUN CGO_ENABLED=0 GOOS=$TARGETOS GOARCH=$TARGETARCH go build -trimpath -ldflags "-s -w" -o /out/stampede .

# Everything at once, for a demo or a test machine: PostgreSQL and Redis run inside as private child processes.
FROM debian:bookworm-20261005-slim@sha256:7c7b2c966bc9ee8cedfeef67e0e279108992c77681fa595db4a9d65c06ccc587 AS demo
# postgresql-common comes first, so that it can be told not to create a cluster: stampede makes its own.
RUN apt-get update \
    && apt-get install -y --no-install-recommends ca-certificates postgresql-common redis-server tzdata wget \
    && echo 'create_main_cluster = false' >> /etc/postgresql-common/createcluster.conf \
    && apt-get install -y --no-install-recommends postgresql-15 \
    && rm -rf /var/lib/apt/lists/* \
    && groupadd --gid 10001 stampede \
    && useradd --uid 10001 --gid 10001 --no-create-home --home-dir /var/lib/stampede --shell /usr/sbin/nologin stampede \
    && install -d -o 10001 -g 10001 -m 0700 /var/lib/stampede
COPY --from=build /out/stampede /usr/local/bin/stampede
# The public URL is where the command above publishes the port. Published elsewhere, it needs another one.
ENV STAMPEDE_DATA=/var/lib/stampede STAMPEDE_PUBLIC_URL=http://127.0.0.1:8080
VOLUME /var/lib/stampede
EXPOSE 8080
USER 10001:10001
# As below; the first start also makes a database cluster.
HEALTHCHECK --interval=5s --timeout=3s --start-period=60s --retries=3 \
    CMD ["wget", "-q", "-O", "/dev/null", "http://127.0.0.1:9180/readyz"]
ENTRYPOINT ["stampede"]
CMD ["run", "--listen", ":8080"]

# The default target: the program, certificates for calling providers, time zones for business dates, and BusyBox's
# wget for health checks, and the client programs of the newest Postgres for backups.
FROM alpine:3.22.6@sha256:5291449c3df73caf6ed85e649dec1b9e818b39a5d8c871e97afc13e9cd5e8fa8 AS serve
RUN apk add --no-cache ca-certificates postgresql17-client tzdata \
    && addgroup -g 10001 stampede \
    && adduser -D -H -h /var/lib/stampede -s /sbin/nologin -u 10001 -G stampede stampede \
    && install -d -o 10001 -g 10001 -m 0700 /var/lib/stampede
COPY --from=build /out/stampede /usr/local/bin/stampede
# Inside a container no client reaches loopback. The ops listener stays on loopback, for the health check below; set
# STAMPEDE_OPS_LISTEN to let a scraper in. The folder holds JetStream's files where no NATS URL is given; the default is
# below the account's home directory, in .local/share/stampede/nats.
ENV STAMPEDE_LISTEN=:8080 STAMPEDE_NATS_DIR=/var/lib/stampede/nats
VOLUME /var/lib/stampede
EXPOSE 8080
# The number, so that Kubernetes can see that it is not root.
USER 10001:10001
# Ready means: database, Redis and JetStream answer, and the process is not draining.
HEALTHCHECK --interval=5s --timeout=3s --start-period=30s --retries=3 \
    CMD ["wget", "-q", "-O", "/dev/null", "http://127.0.0.1:9180/readyz"]
ENTRYPOINT ["stampede"]
CMD ["serve"]
