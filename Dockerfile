# The image of `baton`: a server, unless it is given another command. docs/operating.md says how to run it.
#
# The tag below names its patch version, but a tag can be moved. To pin the image itself, append the digest that
# `docker buildx imagetools inspect python:3.11.16-slim-bookworm` prints: python:3.11.16-slim-bookworm@sha256:…
FROM python:3.11.16-slim-bookworm AS base


# Makes /opt/baton: a virtual environment with Baton and what its server runs on, each file checked by its hash.
FROM base AS build
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 \
    PIP_NO_CACHE_DIR=1 \
    PIP_ROOT_USER_ACTION=ignore
WORKDIR /build
# Without pip, which nobody needs once it runs; the base's installs into them from outside.
RUN python -m venv --without-pip /opt/baton && python -m venv --without-pip /opt/wheel-maker
# Before the sources: a change of those installs nothing anew.
COPY requirements.server.lock requirements.build.lock ./
RUN python -m pip --python /opt/baton/bin/python install \
        --require-hashes --only-binary :all: --requirement requirements.server.lock \
    && python -m pip --python /opt/wheel-maker/bin/python install \
        --require-hashes --only-binary :all: --requirement requirements.build.lock
COPY pyproject.toml README.md LICENSE ./
COPY client/python client/python
COPY server server
RUN /opt/wheel-maker/bin/python -m hatchling build --target wheel --directory dist \
    && python -m pip --python /opt/baton/bin/python install --no-deps --no-index dist/*.whl \
    && python -m pip --python /opt/baton/bin/python check


FROM base
LABEL org.opencontainers.image.title="Baton" \
      org.opencontainers.image.description="A gRPC runtime for LLM agents" \
      org.opencontainers.image.version="0.0.1" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.base.name="docker.io/library/python:3.11.16-slim-bookworm"
# A fixed number, so that who owns a volume does not change with the image. A new volume takes over the folder's owner.
RUN groupadd --gid 10001 baton \
    && useradd --uid 10001 --gid 10001 --no-log-init --no-create-home --home-dir /data --shell /usr/sbin/nologin baton \
    && install --directory --owner 10001 --group 10001 --mode 0750 /data
# Owned by root: the server cannot change what it runs.
COPY --from=build /opt/baton /opt/baton
ENV PATH=/opt/baton/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    BATON_ADDRESS=0.0.0.0:50051 \
    BATON_STORE=/data/baton.db
WORKDIR /data
VOLUME /data
EXPOSE 50051
# By number: whoever forbids root in containers can see that it is not.
USER 10001:10001
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=5s --start-period=30s --retries=3 CMD ["baton", "health", "--timeout", "3"]
# In this form there is no shell in between: SIGTERM reaches the server, which drains.
ENTRYPOINT ["baton"]
CMD ["serve"]
