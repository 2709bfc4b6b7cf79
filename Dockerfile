# Shelfdesk on the Node of its base: no build step, since Node runs TypeScript, and no native code, so that Alpine will do.

FROM node:24-alpine AS build
WORKDIR /app
# First what changes seldom, so that its layer is kept. What is optional stays out: the embedded PostgreSQL, the Node of
# the lock file, and the native part of msgpackr, which works without it.
COPY .npmrc package.json package-lock.json ./
COPY packages/sandbox/package.json ./packages/sandbox/
RUN npm ci --omit=dev --omit=optional --ignore-scripts
COPY . .
# Whatever the umask was where the files come from.
RUN chmod -R a=rX .

FROM node:24-alpine
LABEL org.opencontainers.image.title="Shelfdesk" \
      org.opencontainers.image.description="Mirrors a help desk into PostgreSQL" \
      org.opencontainers.image.licenses="MIT"
# Nothing is installed at run time.
RUN rm -rf /usr/local/lib/node_modules /usr/local/bin/npm /usr/local/bin/npx /usr/local/bin/corepack \
      /usr/local/bin/yarn /usr/local/bin/yarnpkg /opt/yarn-*
WORKDIR /app
COPY --from=build /app/node_modules ./node_modules
COPY --from=build /app/package.json /app/LICENSE ./
COPY --from=build /app/migrations ./migrations
COPY --from=build /app/docs/queries ./docs/queries
COPY --from=build /app/jobs ./jobs
COPY --from=build /app/src ./src
COPY --from=build /app/packages/sandbox ./packages/sandbox
# All of it belongs to root: this user can read it, and change nothing.
USER node
STOPSIGNAL SIGTERM
# The flags are those of the first line of src/main.ts, which says why; Alpine's env does not take that line.
ENTRYPOINT ["node", "--max-semi-space-size=8", "--heap-growing-percent=30", "/app/src/main.ts"]
CMD ["start"]
# 0 if the warehouse answers and a worker of this container is alive.
HEALTHCHECK --interval=15s --timeout=10s --start-period=60s --retries=4 CMD ["node", "/app/src/main.ts", "health"]
