/** How long the record of work is kept. A file of its own: settings name it, and each command reads those. */

/** What comes each minute is kept so long, and so are hand-offs and alarms that are over. */
export const keptDays = 35;
