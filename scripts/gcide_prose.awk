# The GNU Collaborative International Dictionary of English, in dictd's form, as plain prose: one paragraph a line, without
# front matter, pronunciations, etymologies, sources and the braces of cross-references.   awk -v RS= -f gcide_prose.awk
/^A \\A\\/ { started = 1 }
started {
  gsub(/ \\[^\\]*\\/, "")
  gsub(/ \([^() ]*\[[^() ]*\)/, "")
  while (gsub(/ *\[[^][]*\]/, "")) {}
  gsub(/[{}]/, "")
  gsub(/[ \n]+/, " ")
  gsub(/^ | $/, "")
  if ($0 != "") print
}
