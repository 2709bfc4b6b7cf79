/** The table that stores the rows which readers see under this name in the schema helpdesk. */
export const rowsOf = (name: string): string => (name === 'messages' ? 'internal.messages' : `helpdesk.${name}`);
