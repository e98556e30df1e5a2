# docker build -t leasehold .
# The image of a release, for those who build their own: the same tool writes its root folder, and a test holds the settings below to those
# of the release. It is built from the commit that is checked out, with the changes of the working tree.
# Another processor: docker build --platform linux/arm64 . (it is compiled on this one). A version: --build-arg VERSION=v1.2.3
# Of another registry, or by its digest: docker build --build-arg GOLANG=IMAGE@sha256:…
ARG GOLANG=golang:1.26.8-bookworm
FROM --platform=$BUILDPLATFORM $GOLANG AS build
WORKDIR /src
COPY go.mod go.sum ./
COPY release/go.mod release/go.sum ./release/
RUN go mod download && go -C release mod download golang.org/x/crypto/x509roots/fallback github.com/google/licensecheck
COPY . .
ARG TARGETARCH
ARG VERSION=
RUN go run -C release . -rootfs /rootfs -platforms "linux/$TARGETARCH" -dirty $VERSION

FROM scratch
# What another stage has is copied with its owners and permissions: the folder /data is the user's.
COPY --from=build /rootfs/ /
USER 65532:65532
ENV PATH=/usr/bin XDG_DATA_HOME=/data
WORKDIR /
EXPOSE 8080/tcp
STOPSIGNAL SIGTERM
LABEL org.opencontainers.image.title="Leasehold" \
  org.opencontainers.image.source="https://github.com/leasehold-dev/leasehold" \
  org.opencontainers.image.licenses="Apache-2.0"
HEALTHCHECK --interval=10s --timeout=5s --start-period=10s --retries=3 CMD ["/usr/bin/leasehold", "health"]
ENTRYPOINT ["/usr/bin/leasehold"]
CMD ["serve"]
