# The JSON API of a run, in a container:
#
#   docker build -t gsat .
#   docker run -p 8000:8000 -v "$PWD/runs/mols:/runs/mols:ro" -e GSAT_TOKEN=a-long-secret gsat
#
# Add `--build-arg EXTRAS=web` for a smaller image without molecules, and
# `--build-arg TORCH_INDEX=…` to take torch from PyTorch's index of CPU wheels.
FROM python:3.12-slim

ARG EXTRAS=web,molecules
ARG TORCH_INDEX=
# libgomp is torch's, the others draw structural formulae.
RUN apt-get update \
    && apt-get install -y --no-install-recommends libgomp1 libxrender1 libxext6 libexpat1 \
    && rm -rf /var/lib/apt/lists/*

WORKDIR /src
COPY pyproject.toml constraints.txt README.md LICENSE ./
COPY src ./src
RUN PIP_EXTRA_INDEX_URL="$TORCH_INDEX" pip install --no-cache-dir -c constraints.txt ".[$EXTRAS]"

# Nothing in the container needs to be root, and the run is mounted read-only.
RUN useradd --create-home gsat
USER gsat
ENV GSAT_CACHE=/home/gsat/cache OMP_NUM_THREADS=1
# Kernels are compiled once, while the image is built.
RUN gsat warm-up
WORKDIR /home/gsat

EXPOSE 8000
HEALTHCHECK --start-period=60s CMD python -c "import urllib.request as u; u.urlopen('http://127.0.0.1:8000/healthz', timeout=5)"
STOPSIGNAL SIGTERM
ENTRYPOINT ["gsat", "serve", "--host", "0.0.0.0", "--port", "8000"]
CMD ["/runs"]
