# Shelfdesk on the Node of its base: the bundled package with that of the lake, because nothing can be installed in the image. Its
# only native code is DuckDB, the engine of the lake, which has a build for Alpine.

FROM node:24-alpine AS build
WORKDIR /app
# First what changes seldom, so that its layer is kept.
COPY .npmrc package.json package-lock.json ./
COPY packages/lake/package.json ./packages/lake/
COPY packages/sandbox/package.json ./packages/sandbox/
RUN npm ci --ignore-scripts
COPY . .
RUN node packages/build.ts \
  && mv dist/libraries /libraries && cp .npmrc package-lock.json /libraries/ \
  && cp -r node_modules/@duckdb node_modules/detect-libc dist/shelfdesk/node_modules/ \
  && mv dist/lake dist/shelfdesk/node_modules/shelfdesk-lake \
  && mv dist/shelfdesk /package && cd /package \
  && rm -r .env.example ./*.md dbt docs examples && mkdir docs && cp -r /app/docs/queries docs/ \
  # Whatever the umask was where the files come from. Types are for compilers.
  && find . -name '*.d.ts' -delete && chmod -R a=rX .

FROM node:24-alpine AS libraries
WORKDIR /libraries
# What is beside the bundle, in the versions of the lock file: the layer is kept while both files are the same. Types, maps, sources
# and documents of the libraries go: no program reads them.
COPY --from=build /libraries ./
RUN npm install --omit=optional --ignore-scripts \
  && find node_modules -type f \( -name '*.ts' -o -name '*.map' -o -name '*.md' -o -name '*.cts' -o -name '*.mts' \) -delete \
  && chmod -R a=rX node_modules

FROM node:24-alpine
LABEL org.opencontainers.image.title="Shelfdesk" \
      org.opencontainers.image.description="Mirrors a help desk and a book catalog into PostgreSQL" \
      org.opencontainers.image.licenses="MIT"
# Nothing is installed at run time.
RUN rm -rf /usr/local/lib/node_modules /usr/local/bin/npm /usr/local/bin/npx /usr/local/bin/corepack \
      /usr/local/bin/yarn /usr/local/bin/yarnpkg /opt/yarn-*
WORKDIR /app
COPY --from=libraries /libraries/node_modules ./node_modules
COPY --from=build /package ./
# All of it belongs to root: this user can read it, and change nothing.
USER node
STOPSIGNAL SIGTERM
# The flag is that of the first line of src/main.ts, which says why; Alpine's env does not take that line.
ENTRYPOINT ["node", "--max-semi-space-size=8", "/app/src/main.js"]
CMD ["start"]
# 0 if the warehouse answers and a worker of this container is alive.
HEALTHCHECK --interval=15s --timeout=10s --start-period=60s --retries=4 CMD ["node", "/app/src/main.js", "status", "--check"]
