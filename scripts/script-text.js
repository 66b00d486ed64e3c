// Makes the texts that servers run from the scripts of lib in other languages: Lua as it is
// written, and SQL without the lines that are comments, for people who read it in their migrations.
// A line "-- include layout.part.lua" is replaced by that file, which is no script of its own.
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
  return name.endsWith('.lua') ? included : included.replace(/^ *--.*\n/gm, '')
}
