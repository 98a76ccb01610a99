# One image with the five programs: docker build --build-arg REVISION="$(git rev-parse HEAD)" -t duly .
FROM golang:1.26.8 AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
RUN ["scripts/build", "/out"]

# Nothing but the programs and the certificates that they trust; the time zones are inside the programs.
FROM scratch
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/
COPY --from=build /out/ /
ARG REVISION=""
ENV DULY_WORKER_VERSION=$REVISION
USER 65532:65532
ENTRYPOINT ["/duly"]
CMD ["--help"]
