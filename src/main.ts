#!/usr/bin/env node
const v: string = process.version;
console.log(v, process.argv.slice(2));
