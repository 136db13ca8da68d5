# What `cmake --install BUILD --prefix /usr` installs, and the Debian package of it (./dev package).
# The units name /usr/bin, /etc and /var/lib: another prefix wants other units.
include(GNUInstallDirs)

install(TARGETS pulsewheeld pulsewheelctl RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
set(manual_pages config/man/pulsewheeld.8 config/man/pulsewheelctl.1 config/man/pulsewheel.toml.5)
set(completed pulsewheelctl)
if(TARGET pulsewheel-sim)
  install(TARGETS pulsewheel-sim RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
  list(APPEND manual_pages config/man/pulsewheel-sim.1)
  list(APPEND completed pulsewheel-sim)
endif()

install(FILES config/pulsewheel.toml DESTINATION /etc/pulsewheel)
install(FILES docker/systemd/pulsewheeld.service docker/systemd/pulsewheeld.socket
  DESTINATION lib/systemd/system)
install(FILES docker/systemd/sysusers.conf DESTINATION lib/sysusers.d RENAME pulsewheel.conf)
install(FILES docker/systemd/tmpfiles.conf DESTINATION lib/tmpfiles.d RENAME pulsewheel.conf)
foreach(page ${manual_pages})
  string(REGEX MATCH "[0-9]$" section ${page})
  install(FILES ${page} DESTINATION ${CMAKE_INSTALL_MANDIR}/man${section})
endforeach()
# bash-completion looks for a file with the name of the program.
set(completions ${CMAKE_INSTALL_DATADIR}/bash-completion/completions)
install(FILES config/completion/pulsewheel.bash DESTINATION ${completions} RENAME pulsewheeld)
foreach(program ${completed})
  install(CODE "file(CREATE_LINK pulsewheeld
    \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${completions}/${program}\" SYMBOLIC)")
endforeach()
install(FILES docker/debian/copyright README.md proto/PROTOCOL.md docker/TUNING.md
  DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(FILES docker/alerts.yml docker/grafana-dashboard.json
  DESTINATION ${CMAKE_INSTALL_DOCDIR}/examples)

set(PULSEWHEEL_MAINTAINER "Pulsewheel <pulsewheel@example.org>" CACHE STRING
  "Who answers for a package that is made of this: Name <address>")

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME pulsewheel)
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "presence daemon: knows who is online")
file(READ docker/debian/description CPACK_DEBIAN_PACKAGE_DESCRIPTION)
set(CPACK_DEBIAN_PACKAGE_MAINTAINER ${PULSEWHEEL_MAINTAINER})
set(CPACK_DEBIAN_PACKAGE_SECTION net)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_DEPENDS "systemd | systemd-standalone-sysusers | systemd-sysusers")
set(CPACK_DEBIAN_PACKAGE_SUGGESTS "redis-server")
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_DEBIAN_PACKAGE_CONTROL_EXTRA
  ${PROJECT_SOURCE_DIR}/docker/debian/conffiles ${PROJECT_SOURCE_DIR}/docker/debian/postinst
  ${PROJECT_SOURCE_DIR}/docker/debian/prerm ${PROJECT_SOURCE_DIR}/docker/debian/postrm)
set(CPACK_INSTALL_PREFIX /usr)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_SET_DESTDIR ON)  # for /etc
set(CPACK_STRIP_FILES ON)
set(CPACK_PRE_BUILD_SCRIPTS ${PROJECT_SOURCE_DIR}/docker/debian/stage.cmake)
set(CPACK_PULSEWHEEL_SOURCE ${PROJECT_SOURCE_DIR})
include(CPack)
