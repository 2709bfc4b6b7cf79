/** Finds the route of a request in a table of routes. */

interface Way {
  method: string;
  /** A name after a colon, such as `:id`, matches one path segment. */
  path: string;
}

/** The route and the values of its names; otherwise whether the path is unknown or only the method. */
export function findAmong<T extends Way>(
  routes: readonly T[],
  method: string,
  path: string,
): { route: T; names: Record<string, string> } | 'no such path' | 'another verb' {
  const known = routes.flatMap(route => {
    const names = matchPath(route.path, path);
    return names === undefined ? [] : [{ route, names }];
  });
  const found = known.find(({ route }) => route.method === method);
  return found ?? (known.length === 0 ? 'no such path' : 'another verb');
}

function matchPath(pattern: string, path: string): Record<string, string> | undefined {
  const wanted = pattern.split('/');
  const given = path.split('/');
  if (wanted.length !== given.length) return undefined;
  const names: Record<string, string> = {};
  for (const [at, part] of wanted.entries()) {
    if (part.startsWith(':') && given[at] !== '') names[part.slice(1)] = given[at]!;
    else if (part !== given[at]) return undefined;
  }
  return names;
}
