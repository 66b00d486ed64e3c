// Makes the texts that servers run from the scripts of lib in other languages: without the lines
// that are comments, and in Lua without indentation and empty lines. People read the SQL, in their
// migrations. A line "-- include layout.part.lua" is replaced by that file, which is no
// script of its own.
import { dirname, join } from 'node:path'

/** Whether the file of this name is a script. */
export function isScript (name) {
  return /(?<!\.part)\.(lua|sql)$/.test(name)
}

/** @param read Returns the text of a file by its name. */
export function scriptText (name, read) {
  const included = read(name).replace(/^ *-- include (.+)$/gm, (_line, part) =>
    read(join(dirname(name), part))
  )
  const text = withValues(included).replace(/^ *--.*\n/gm, '')
  return name.endsWith('.lua') ? text.replace(/^ +|^\n/gm, '') : text
}

// Redis has Lua 5.1. As the compiler of Lua 5.4 does, puts values that are marked <const> where
// their names are, which costs nothing at run time.
function withValues (text) {
  const values = new Map()
  const others = text.replace(/^ *local ([A-Z_]+ <const>.*) = (.+)\n/gm, (_line, names, list) => {
    const listed = list.split(', ')
    names
      .split(', ')
      .forEach((name, index) => values.set(name.replace(' <const>', ''), listed[index]))
    return ''
  })
  return others.replace(/(?<!-- .*)\b[A-Z_]+\b/g, (name) => values.get(name) ?? name)
}
