# Finishes the tree that CPack has staged: what Debian wants compressed, links, and the changelog.
set(root ${CPACK_TEMPORARY_INSTALL_DIRECTORY})
set(doc ${root}/usr/share/doc/pulsewheel)

function(run)
  execute_process(COMMAND ${ARGV} COMMAND_ERROR_IS_FATAL ANY)
endfunction()

file(GLOB pages ${root}/usr/share/man/man*/*.[1-8])
run(gzip -9n ${pages})

execute_process(
  COMMAND python3 -B ${CPACK_PULSEWHEEL_SOURCE}/docker/debian/changelog.py
    ${CPACK_PULSEWHEEL_SOURCE}/README.md ${CPACK_PACKAGE_VERSION} ${CPACK_DEBIAN_PACKAGE_MAINTAINER}
  OUTPUT_FILE ${doc}/changelog COMMAND_ERROR_IS_FATAL ANY)
run(gzip -9n ${doc}/changelog)
file(GLOB documents ${doc}/*.md)
run(gzip -9n ${documents})
