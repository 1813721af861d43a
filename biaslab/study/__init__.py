"""Run studies: `collect`, with power (`planning`) and cost (`spending`) known beforehand."""
